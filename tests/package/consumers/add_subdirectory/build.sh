mkdir third_party
ln -s "$FERRY" third_party/ferry
# [build]
cmake -S . -B build -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
cmake --build build
./build/app
# [/build]
