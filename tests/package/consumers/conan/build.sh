export CONAN_HOME=$PWD/home
# [create]
conan create "$FERRY/packaging/dlpack" --profile:all profile
conan create "$FERRY" --profile:all profile
# [/create]
# [build]
conan install . --profile:all profile --output-folder build
cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake -DCMAKE_BUILD_TYPE=Release
cmake --build build
./build/app
# [/build]
# With the engines as a shared library, in a folder of its own.
mkdir compiled
cp main.cpp conanfile.txt compiled
sed 's/REQUIRED/& COMPONENTS compiled/; s/ferry::ferry/ferry::compiled/' CMakeLists.txt >compiled/CMakeLists.txt
export CONAN_HOME=$PWD/home-compiled
conan create "$FERRY/packaging/dlpack" --profile:all profile
# [compiled]
conan create "$FERRY" --profile:all profile --options 'ferry/*:header_only=False' --options 'ferry/*:shared=True'
# [/compiled]
conan install compiled --profile:all profile --options 'ferry/*:header_only=False' --options 'ferry/*:shared=True' --output-folder compiled/build
cmake -S compiled -B compiled/build -DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake -DCMAKE_BUILD_TYPE=Release
cmake --build compiled/build
./compiled/build/app
nm -D compiled/build/app | grep -q FERRY_SEPARATE_COMPILATION
export CONAN_HOME=$PWD/home
# Header-only: one package, whatever the settings.
conan install --requires "ferry/[>=0.1]" --profile:all profile --settings build_type=Debug --settings compiler.cppstd=23
packages=$(conan list 'ferry/*:*' --format=compact | grep -o 'ferry/.*:[0-9a-f]\{40\}$')
cp -r "$(conan cache path "$packages")" "$RESULT"  # fails if there are two
