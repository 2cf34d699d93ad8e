// ferry: a reference to a back end of any type.
#pragma once

#include <ferry/space/detail/any_owner.hpp>
#include <ferry/space/detail/operations.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

/// The operations of a back end of one type. An optional operation that the type does not have is null.
struct back_end_operations {
    bool (*reaches)(void*, device);
    result<any_owner> (*allocate)(void*, device, std::size_t, stream_token);
    result<bool> (*copy)(void*, copy_plan const&, void*, device, void const*, device, stream_token);
    result<> (*order)(void*, stream_token, stream_token);
    result<> (*wait)(void*, stream_token);
    result<any_owner> (*mark)(void*, stream_token);
    void (*locate)(void*, tensor_view const&, std::optional<device>&, bool&);
};

/// Moves an object, or the value of a result, into an owner.
template <class Call>
[[nodiscard]] result<any_owner> own_result(Call call) {
    auto got = call();
    any_owner owner;
    if constexpr (is_result<decltype(got)>)
        if (!got) return got.error();
    if (owner.store(std::move(unwrapped(got)))) return owner;
    record failed{buffer_api, {}};
    static_cast<void>(report_out_of_memory(failed));
    return failed.outcome.error();
}
/// Calls an operation, and returns the error that it returns, if any.
template <class Call>
[[nodiscard]] result<> outcome_of(Call call) {
    record to{"", {}};
    static_cast<void>(perform(to, call));
    return to.outcome;
}

/// Returns the object of type B to which a reference points.
template <class B>
[[nodiscard]] B& at(void* object) noexcept {
    return *static_cast<B*>(object);
}

template <back_end B>
struct FERRY_HIDDEN operations_of {
    static bool reaches(void* b, device d) { return at<B>(b).reaches(d); }
    static result<any_owner> allocate(void* b, device d, std::size_t bytes, stream_token on) {
        return own_result([&] { return at<B>(b).allocate(d, bytes, on); });
    }
    static result<bool> copy(void* b, copy_plan const& plan, void* dst, device to, void const* src, device from,
                             stream_token on) {
        record outcome{"", {}};
        bool is_complete = false;
        if (!queue_copy(at<B>(b), plan, dst, to, src, from, on, is_complete, outcome)) return outcome.outcome.error();
        return is_complete;
    }
    static result<> order(void* b, stream_token from, stream_token to) {
        return outcome_of([&] { return at<B>(b).order(from, to); });
    }
    static result<> wait(void* b, stream_token on) {
        return outcome_of([&] { return at<B>(b).wait(on); });
    }
    static result<any_owner> mark([[maybe_unused]] void* b, [[maybe_unused]] stream_token on) {
        if constexpr (marking_back_end<B>) return own_result([&] { return at<B>(b).mark(on); });
        else return any_owner{};
    }
    static void locate([[maybe_unused]] void* b, [[maybe_unused]] tensor_view const& v,
                       [[maybe_unused]] std::optional<device>& space, [[maybe_unused]] bool& is_inside) {
        if constexpr (has_space<B>) find_operations<locates>(at<B>(b))->locate(v, space, is_inside);
    }
    static constexpr back_end_operations table{
        reaches, allocate, copy, order, wait, marking_back_end<B> ? mark : nullptr, has_space<B> ? locate : nullptr};
};

/// Calls the operations of a back end of any type.
class back_end_calls {
   public:
    [[nodiscard]] bool reaches(device d) const { return operations_->reaches(object_, d); }
    [[nodiscard]] result<any_owner> allocate(device d, std::size_t bytes, stream_token on) const {
        return operations_->allocate(object_, d, bytes, on);
    }
    result<bool> copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                      stream_token on) const {
        return operations_->copy(object_, plan, dst, to, src, from, on);
    }
    result<> order(stream_token from, stream_token to) const { return operations_->order(object_, from, to); }
    result<> wait(stream_token on) const { return operations_->wait(object_, on); }
    /// Returns an empty owner if the back end has no `mark`.
    [[nodiscard]] result<any_owner> mark(stream_token on) const {
        return operations_->mark != nullptr ? operations_->mark(object_, on) : any_owner{};
    }
    /// Sets the device of the space, and whether it contains a tensor, if the back end has a space.
    void locate(tensor_view const& v, std::optional<device>& space, bool& is_inside) const {
        if (operations_->locate != nullptr) operations_->locate(object_, v, space, is_inside);
    }

   protected:
    constexpr back_end_calls(void* object, back_end_operations const& its) noexcept
        : object_{object}, operations_{&its} {}
    [[nodiscard]] void* object() const noexcept { return object_; }

   private:
    void* object_;
    back_end_operations const* operations_;
};

}  // namespace detail

/// A reference to a back end of any type, through which code that is compiled once calls it (D24). Consists of two
/// pointers; pass it by value. Any back end converts to it, including a temporary one for the duration of a call. It is
/// a back end itself, as thread-safe as the one it references, which must outlive it.
///
/// Has the operations of `back_end` and `mark`. They return or throw the error that the back end returns or throws. If
/// the back end has no `mark`, nothing waits for queued work.
class back_end_ref : public detail::back_end_calls {
   public:
    /// References `host_only`.
    constexpr back_end_ref() noexcept : back_end_ref{host_only} {}
    /// References a back end.
    ///
    /// \param b  back end
    template <class B>
        requires(!std::derived_from<std::remove_cvref_t<B>, back_end_ref> && back_end<std::remove_reference_t<B>>)
    constexpr back_end_ref(B&& b FERRY_LIFETIME_BOUND) noexcept
        : back_end_calls{const_cast<void*>(static_cast<void const*>(&b)),
                         detail::operations_of<std::remove_reference_t<B>>::table} {}
    // clang-format off
    template <class Other>
        requires(!back_end<std::remove_reference_t<Other>>)
    back_end_ref(Other&&) FERRY_DELETED("the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp");
    // clang-format on
};

}  // namespace FERRY_NAMESPACE
