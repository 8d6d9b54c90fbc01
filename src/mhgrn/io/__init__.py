"""Files and folders that are complete or absent, and the formats stored in them."""
