// ferry: bytes that are owned.
#pragma once

#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <utility>

namespace ferry::inline v0 {

/// Memory of a space, given back when the buffer dies, on whatever thread. Move-only. A buffer of 0 bytes asks the
/// space for nothing and its data is null.
template <memory_space Space = host_space>
class buffer {
   public:
    /// \throws  what the space throws: std::bad_alloc, or an error of its back end
    explicit buffer(std::size_t bytes, Space space = Space{}, std::size_t alignment = default_alignment)
        : space_{std::move(space)},
          data_{bytes != 0 ? space_.allocate(bytes, alignment) : nullptr},
          bytes_{bytes},
          alignment_{alignment} {}
    buffer(buffer&& other) noexcept
        : space_{other.space_},
          data_{std::exchange(other.data_, nullptr)},
          bytes_{std::exchange(other.bytes_, 0)},
          alignment_{other.alignment_} {}
    buffer& operator=(buffer&& other) noexcept {
        std::swap(space_, other.space_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(alignment_, other.alignment_);
        return *this;
    }
    ~buffer() {
        if (data_ != nullptr) space_.deallocate(data_, bytes_, alignment_);  // mutant: buffer_release
    }

    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] ferry::device device() const noexcept { return space_.device(); }

   private:
    [[no_unique_address]] Space space_;
    void* data_;
    std::size_t bytes_;
    std::size_t alignment_;
};

}  // namespace ferry::inline v0
