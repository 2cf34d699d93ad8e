// Times a round trip many times over: export, import, release of a tensor of rank 4.
#pragma once

#include <chrono>

namespace bench {

/// What is computed and not used stays computed.
inline void keep(void const* p) { asm volatile("" : : "g"(p) : "memory"); }

/// Nanoseconds of one turn.
template <class F>
double turns(long n, F&& turn) {
    auto const begin = std::chrono::steady_clock::now();
    for (long i = 0; i < n; ++i) turn();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
           static_cast<double>(n);
}

double aten_turns(long n);     // torch.cpp
double tvm_ffi_turns(long n);  // tvm_ffi.cpp

}  // namespace bench
