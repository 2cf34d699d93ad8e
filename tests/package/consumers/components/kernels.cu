#include <ferry/cuda/pack.cuh>

#include <cstdio>

int main() { std::printf("%p\n", reinterpret_cast<void*>(&ferry::cuda::pack_compiled)); }
