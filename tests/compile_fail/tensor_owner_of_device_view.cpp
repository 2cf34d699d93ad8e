// expect: pass the tensor_view from which it was made
// A typed view of device memory does not store its device.
#include <ferry/ferry.hpp>

#include <memory>
#include <utility>

auto own(std::shared_ptr<float> owner, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(std::move(owner), ferry::as<float, 1, ferry::access_from::device>(v));
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
