"""Files: run folders, results files and the mesh cache."""
