// expect: array_traits<T>::owns must be public, static constexpr bool owns or static bool owns\(T const&\)
// A private constant would be ignored (D13).
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float* value;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
   private:
#endif
    static constexpr bool owns = false;
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}); }
// next case
// The adapter could not be asked about an array that is about to move (D13).
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float data[4];
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array const& a) { return {a.data, extents}; }
#ifdef FERRY_COMPILE_FAIL
    static bool owns(array&) { return true; }
#else
    static bool owns(array const&) { return true; }
#endif

   private:
    static constexpr std::int64_t extents[1] = {4};
};

ferry::managed_tensor first(array a) { return ferry::to_dlpack(std::move(a)); }
