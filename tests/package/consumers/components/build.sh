# WITH: "cuda;kernels", "cuda" or nothing.
options=(-DWITH="$WITH" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK" -DPython3_EXECUTABLE="$PYTHON")
# An old DLPack on the search path does not come before the one that was named.
mkdir -p old/include/dlpack
echo "#define DLPACK_VERSION 80" >old/include/dlpack/dlpack.h
cmake -S . -B build -DCMAKE_PREFIX_PATH="$PREFIX;$PWD/old" "${options[@]}"
cmake --build build
./build/app
(cd build && "$PYTHON" -c 'import python_part; assert python_part.rank == 0')
for part in cuda_part cuda_shared_part kernels_part; do
    [ ! -e build/$part ] || ./build/$part
done
# The same targets come with the source; the generator looks for all that they link.
cmake -S . -B source-build -DFERRY_SOURCE="$FERRY" "${options[@]}"
cmake --build source-build --target app
./source-build/app
