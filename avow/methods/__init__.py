"""Methods: one file each, one `build` each, all comparing images with texts."""
