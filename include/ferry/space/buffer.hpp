// ferry: an owner of memory of a space.
#pragma once

#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <utility>

namespace ferry::inline v0 {

/// Owns memory of a space, and returns it to the space on destruction, on any thread. Move-only. A buffer of 0 bytes
/// does not allocate; its address is null.
template <memory_space Space = host_space>
class buffer {
   public:
    /// Allocates memory.
    ///
    /// \param bytes      size
    /// \param space      memory space; the buffer stores a copy, which is a handle
    /// \param alignment  alignment in bytes
    /// \throws std::bad_alloc  when a host space cannot allocate
    /// \throws error           errors of other spaces
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

    /// Returns the address of the memory.
    ///
    /// \return  address; null for 0 bytes
    [[nodiscard]] void* data() const noexcept { return data_; }
    /// Returns the size in bytes.
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    /// Returns the device of the space.
    [[nodiscard]] ferry::device device() const noexcept { return space_.device(); }

   private:
    [[no_unique_address]] Space space_;
    void* data_;
    std::size_t bytes_;
    std::size_t alignment_;
};

}  // namespace ferry::inline v0
