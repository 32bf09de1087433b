"use strict";
// Shows what the page holds.

start(async () => {
  const main = document.getElementById("content");
  try {
    const report = await held("report");
    if (report) showModel(main, report);
    document.body.dataset.ready = "yes";
  } catch (error) {
    main.textContent = `This page cannot be shown: ${error}`;
    throw error;
  }
});
