# Where there is no DLPack header the pinned release is fetched; here its source tree stands ready instead.
mkdir -p third_party release/include
ln -s "$FERRY" third_party/ferry
cp -r "$DLPACK/dlpack" release/include
cmake -S . -B build -DCMAKE_DISABLE_FIND_PACKAGE_dlpack=ON -DFETCHCONTENT_SOURCE_DIR_DLPACK="$PWD/release"
grep -q "$PWD/release/include" build/build.ninja
cmake --build build
./build/app
