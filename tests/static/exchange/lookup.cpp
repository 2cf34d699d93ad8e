// A library whose namespace has functions with the names of ferry's functions, which are better matches.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <type_traits>

namespace hostile {

struct array {
    float data[2] = {};
    std::int64_t shape[1] = {2};
};

template <class... T>
void* ready_on(T&&...) = delete;
template <class... T>
void to_dlpack(T&&...) = delete;
template <class... T>
void from_dlpack(T&&...) = delete;
template <class... T>
void negotiate(T&&...) = delete;
template <class... T>
void view_of(T&&...) = delete;
template <class... T>
void order_streams(T&&...) = delete;
template <class... T>
void copy(T&&...) = delete;
template <class... T>
void adopt(T&&...) = delete;
template <class... T>
void describe(T&&...) = delete;
template <class... T>
void unwrapped(T&&...) = delete;

}  // namespace hostile

// DLTensor is a global type, so argument-dependent lookup finds these functions.
template <class... T>
void validate(T&&...) = delete;

template <>
struct ferry::array_traits<hostile::array> {
    static tensor_view view(hostile::array& a) { return {a.data, a.shape}; }
    static tensor_view view(hostile::array const& a) { return {a.data, a.shape}; }
    static result<hostile::array> share(hostile::array const&) { return hostile::array{}; }
    static result<hostile::array> adopt(managed_tensor) { return hostile::array{}; }
    static result<hostile::array> allocate(data_type, shape_view, device) { return hostile::array{}; }
};

[[maybe_unused]] static void use(hostile::array& a, DLManagedTensor* legacy) {
    static_cast<void>(ferry::to_dlpack(hostile::array{}));
    static_cast<void>(ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}));
    static_cast<void>(ferry::from_dlpack<hostile::array>(hostile::array{}, {.device = ferry::cpu}));
    static_cast<void>(ferry::from_dlpack<hostile::array>(ferry::from_dlpack(legacy)));
    static_cast<void>(ferry::to_host(hostile::array{}));
    static_cast<void>(ferry::try_to_dlpack(a));
    static_cast<void>(ferry::try_from_dlpack<hostile::array>(a, {.copy = ferry::copy_policy::always}));
    auto const loan = ferry::borrow(a);
    static_cast<void>(loan.dltensor());
}
