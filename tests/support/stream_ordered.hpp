// A back end with stream-ordered memory, which detects memory that is released before its stream was waited for.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/host_copy.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace support {

/// Runs work at once; counts the waits for its stream, and the memory that was released without a wait.
class stream_ordered {
   public:
    int given = 0, given_back = 0, too_early = 0, waits = 0;
    bool fails = false;

    class memory {
       public:
        memory(stream_ordered& from, std::size_t bytes) : from_{&from}, p_{std::malloc(bytes)} {
            if (p_ == nullptr) throw std::bad_alloc{};
            ++from.given;
        }
        memory(memory&& other) noexcept : from_{other.from_}, p_{std::exchange(other.p_, nullptr)} {}
        memory& operator=(memory&&) = delete;
        ~memory() {
            if (p_ == nullptr) return;
            ++from_->given_back;
            if (from_->waits == 0) ++from_->too_early;
            std::free(p_);
        }
        [[nodiscard]] void* data() const noexcept { return p_; }

       private:
        stream_ordered* from_;
        void* p_;
    };
    class mark_of_stream {
       public:
        mark_of_stream() = default;
        explicit mark_of_stream(stream_ordered& from) noexcept : from_{&from} {}
        mark_of_stream(mark_of_stream&& other) noexcept : from_{std::exchange(other.from_, nullptr)} {}
        mark_of_stream& operator=(mark_of_stream&& other) noexcept {
            std::swap(from_, other.from_);
            return *this;
        }
        ~mark_of_stream() {
            if (from_ != nullptr) ++from_->waits;
        }

       private:
        stream_ordered* from_ = nullptr;
    };

    [[nodiscard]] bool reaches(ferry::device) const noexcept { return true; }
    [[nodiscard]] memory allocate(ferry::device, std::size_t bytes, ferry::stream_token) { return {*this, bytes}; }
    void copy(ferry::copy_plan const& plan, void* dst, ferry::device, void const* src, ferry::device,
              ferry::stream_token) {
        if (fails) throw ferry::error{ferry::errc::driver, "stream_ordered", ferry::message{"injected"}};
        ferry::copy_on_host(plan, dst, src);
    }
    void order(ferry::stream_token, ferry::stream_token) const noexcept {}
    void wait(ferry::stream_token) noexcept { ++waits; }
    [[nodiscard]] mark_of_stream mark(ferry::stream_token) noexcept { return mark_of_stream{*this}; }
};
static_assert(ferry::marking_back_end<stream_ordered>);

}  // namespace support
