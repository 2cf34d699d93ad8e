PREFIX=$PWD/first
# [install]
cmake --preset install -S "$FERRY" -B ferry-build
cmake --install ferry-build --prefix "$PREFIX"
# [/install]
rm -r ferry-build
mv first moved
PREFIX=$PWD/moved
# [build]
cmake -S . -B build -DCMAKE_PREFIX_PATH="$PREFIX" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
cmake --build build
./build/app
# [/build]
cp -r moved "$RESULT"
