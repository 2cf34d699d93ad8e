// ferry: an owner of memory from a memory space.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/config.hpp>
#include <ferry/space/memory_space.hpp>

#include <source_location>

namespace FERRY_NAMESPACE {
namespace detail {

/// The name of `buffer` in its errors.
inline constexpr char buffer_api[] = "ferry::buffer";

}  // namespace detail

/// Owns memory from a memory space. The destructor returns the memory to the space and may run on any thread.
/// Move-only. A buffer of 0 bytes does not allocate; its address is null.
template <memory_space Space = host_space>
class buffer {
   public:
#if FERRY_HAS_EXCEPTIONS
    /// Allocates memory.
    ///
    /// \param bytes      size
    /// \param space      memory space; the buffer stores a copy, which is a handle
    /// \param alignment  alignment in bytes
    /// \throws std::bad_alloc  when a host space cannot allocate
    /// \throws error           errc::out_of_memory when the space returns null; errors of other spaces
    explicit buffer(std::size_t bytes, Space space = Space{}, std::size_t alignment = default_alignment,
                    std::source_location where = std::source_location::current())
        : buffer{bytes, std::move(space), alignment, detail::reporter{detail::buffer_api, where}} {}
#endif
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
        if (data_ != nullptr) space_.deallocate(data_, bytes_, alignment_);
    }

    /// Allocates memory. Returns an error on failure, instead of throwing it.
    ///
    /// \param bytes      size
    /// \param space      memory space; the buffer stores a copy, which is a handle
    /// \param alignment  alignment in bytes
    /// \return           buffer, or the error: errc::out_of_memory when the space returns null or throws
    ///                   std::bad_alloc; otherwise the ferry::error that the space throws
    [[nodiscard]] static result<buffer> try_allocate(std::size_t bytes, Space space = Space{},
                                                     std::size_t alignment = default_alignment,
                                                     std::source_location where = std::source_location::current()) {
        return detail::attempt<buffer>(detail::buffer_api, where, [&](detail::reporter r) {
            return buffer{bytes, std::move(space), alignment, r};
        });
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
    buffer(std::size_t bytes, Space&& space, std::size_t alignment, detail::reporter r)
        : space_{std::move(space)},
          data_{bytes != 0 ? space_.allocate(bytes, alignment) : nullptr},
          bytes_{bytes},
          alignment_{alignment} {
        if (data_ == nullptr && bytes != 0) static_cast<void>(detail::report_out_of_memory(r));
    }

    FERRY_NO_UNIQUE_ADDRESS Space space_;
    void* data_;
    std::size_t bytes_;
    std::size_t alignment_;
};

}  // namespace FERRY_NAMESPACE
