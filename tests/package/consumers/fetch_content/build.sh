# A repository with one commit, of the tree as it is.
mkdir repository
git init -q -b main repository
cp -r "$FERRY"/{CMakeLists.txt,LICENSE,cmake,include,packaging} repository
git -C repository add -A
git -C repository -c user.name=test -c user.email=test@example.org commit -qm tree
FERRY_REPOSITORY=$PWD/repository FERRY_TAG=main
# [build]
cmake -S . -B build -DFERRY_REPOSITORY="$FERRY_REPOSITORY" -DFERRY_TAG="$FERRY_TAG" -DFERRY_DLPACK_INCLUDE_DIR="$DLPACK"
cmake --build build
./build/app
# [/build]
