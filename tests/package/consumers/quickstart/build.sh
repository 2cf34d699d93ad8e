cp -r "$FERRY/examples/quickstart" source
cmake -S source -B build -DCMAKE_PREFIX_PATH="$PREFIX" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
cmake --build build
./build/quickstart | diff - "$FERRY/examples/quickstart/expected.txt"
