# [build]
mkdir third_party
cp -r "$FERRY/include/ferry" "$DLPACK/dlpack" third_party
$CXX -std=c++20 -I third_party main.cpp -o app
./app
# [/build]
