// Exports and imports tensors of PyTorch's C++ library; unsupported tensors are refused with an error that names the fix.
#include <ferry/adapters/torch.hpp>
#include <ferry/ferry.hpp>

#include <ATen/ops/ones.h>

#include <cstring>
#include <utility>

#undef NDEBUG  // the program is a test
#include <cassert>

int main() {
    // [torch]
    at::Tensor weights = at::ones({2, 3});
    ferry::managed_tensor t = ferry::to_dlpack(weights);                        // another handle
    at::Tensor const back = ferry::from_dlpack<at::Tensor>(std::move(t));       // the same memory
    weights.requires_grad_();
    try {
        static_cast<void>(ferry::to_dlpack(weights));
        assert(false);
    } catch (ferry::error const& e) {
        assert(std::strstr(e.what(), "call detach()") != nullptr);
    }
    // [/torch]
    assert(back.data_ptr() == weights.data_ptr());
}
