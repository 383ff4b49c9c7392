# Install rules: archives, headers, a CMake package with one component an archive, and one .pc an archive.
