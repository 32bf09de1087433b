"""Models that seeded code makes: small ones full of traps, and exports of networks."""
