cmake --preset install -S "$FERRY" -B ferry-build
cmake --install ferry-build --prefix "$PWD/first"
mv first moved
PREFIX=$PWD/moved
# [build]
export PKG_CONFIG_PATH="$PREFIX/share/pkgconfig"
$CXX -std=c++20 $(pkg-config --cflags --define-variable=dlpack_includedir="$DLPACK" ferry) main.cpp -o app
./app
# [/build]
test "ferry $(pkg-config --modversion ferry)" = "$(./app)"
# Without the variable DLPack's header is expected beside ferry's.
cp -r "$DLPACK/dlpack" moved/include
$CXX -std=c++20 $(pkg-config --cflags ferry) main.cpp -o app
./app
