test_package() { # NAME BUILD_SHARED_LIBS
    PREFIX=$PWD/first-$1
    shared=$2
    # [install]
    cmake --preset install -S "$FERRY" -B ferry-build -DFERRY_COMPONENTS=compiled -DBUILD_SHARED_LIBS="$shared" \
        -DCMAKE_BUILD_TYPE=Release -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
    cmake --build ferry-build
    cmake --install ferry-build --prefix "$PREFIX"
    # [/install]
    rm -r ferry-build
    mv "$PREFIX" "moved-$1"
    PREFIX=$PWD/moved-$1
    cmake -S . -B "build-$1" -DCMAKE_PREFIX_PATH="$PREFIX" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
    cmake --build "build-$1"
    "./build-$1/app"
    export PKG_CONFIG_PATH="$PREFIX/share/pkgconfig:$(echo "$PREFIX"/lib*/pkgconfig)"
    # [pkg-config]
    $CXX -std=c++20 main.cpp $(pkg-config --cflags --libs --define-variable=dlpack_includedir="$DLPACK" ferry-compiled) -o app
    # [/pkg-config]
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir ferry-compiled) ./app
}
test_package static OFF
test_package shared ON
# The program of the shared library contains no engine, and that of the static one does.
nm -D app | grep 'U .*try_from_bytes\|U .*from_bytes'
[ -z "$(nm -D build-static/app | grep from_bytes)" ]
cmake -S . -B build-source -DFERRY_SOURCE="$FERRY" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
cmake --build build-source
./build-source/app
# [by hand]
echo '#include <ferry/src.hpp>' >ferry.cpp
$CXX -std=c++20 -DFERRY_SEPARATE_COMPILATION -I "$FERRY/include" -I "$DLPACK" main.cpp ferry.cpp -o app
./app
# [/by hand]
