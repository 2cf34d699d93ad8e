// A request and the wrong requests that deleted overloads take have the same members in the same order, so that a
// member that is added to one of them only does not compile.
#include <ferry/exchange/request.hpp>

#include <optional>

namespace {

using namespace ferry;

template <class R, class Device, class Copy, class Stream>
constexpr bool has_the_members = requires(Device device, Copy copy, Stream stream) {
    R{.device = device,
      .copy = copy,
      .stream = stream,
      .max_version = version::current,
      .layout = layout::strided,
      .placement = placement::any};
};
template <class R>
constexpr bool has_no_other(R const& r) {
    auto const& [device, copy, stream, max_version, layout, placement] = r;
    return &device == &r.device && &copy == &r.copy && &stream == &r.stream && &max_version == &r.max_version &&
           &layout == &r.layout && &placement == &r.placement;
}
template <class R>
constexpr bool is_equal_to_default(R const& r) {
    return r.max_version == request{}.max_version && r.layout == request{}.layout && r.placement == placement::any;
}

using place = std::optional<device>;
static_assert(has_the_members<request, place, copy_policy, stream_token>);
static_assert(has_the_members<detail::wrong_request, place, copy_policy, int>);
static_assert(has_the_members<detail::request_of_wrong_device, int, copy_policy, stream_token>);
static_assert(has_the_members<detail::request_of_wrong_copy, place, bool, stream_token>);

static_assert(has_no_other(request{}));
static_assert(has_no_other(detail::wrong_request{.stream = 0}));
static_assert(has_no_other(detail::request_of_wrong_device{.device = 0}));
static_assert(has_no_other(detail::request_of_wrong_copy{.copy = true}));

static_assert(is_equal_to_default(detail::wrong_request{.stream = 0}));
static_assert(is_equal_to_default(detail::request_of_wrong_device{.device = 0}));
static_assert(is_equal_to_default(detail::request_of_wrong_copy{.copy = true}));

}  // namespace
