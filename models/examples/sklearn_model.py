"""A classifier of scikit-learn, by skl2onnx."""

import skl2onnx
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier

import onnxcast

flowers = load_iris()
x = flowers.data.astype("float32")
classifier = MLPClassifier((32, 32), max_iter=2000, random_state=0).fit(x, flowers.target)
model = skl2onnx.to_onnx(classifier, x[:1])
result = onnxcast.optimize(model, fp32_cast="all-fp16", inputs={"X": x})
result.save("iris.onnx")
