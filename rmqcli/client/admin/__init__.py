"""Administration of a cluster: `Admin`, and one module for each of its areas."""
