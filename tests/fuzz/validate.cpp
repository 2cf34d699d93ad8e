// Hostile structs (R2, R3, R5, R16–R32, R68): accepted exactly when an oracle in wide integers accepts them, with the
// same description, and released once. Lists of extents and strides are allocations of their exact length, and so is a
// struct of another major version, so that AddressSanitizer detects reads out of bounds.
#include "bytes.hpp"

#include <ferry/ferry.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace {

using fuzz::wide;
constexpr wide most = INT64_MAX, least = INT64_MIN;

int deleted = 0;

/// The fields of a producer's struct.
struct tensor_spec {
    bool legacy, padded;
    std::uint32_t major, minor;
    std::uint64_t flag_bits;
    DLTensor t{};
    std::unique_ptr<std::int64_t[]> shape, strides;  // exact: ndim values
    bool has_deleter;
};

tensor_spec read(fuzz::bytes& in) {
    tensor_spec s{};
    auto const mode = in.take<std::uint8_t>();
    s.legacy = (mode & 1) != 0;
    s.has_deleter = (mode & 2) == 0;
    s.major = (mode & 4) == 0 ? 1 : in.take<std::uint32_t>();
    s.minor = in.take<std::uint8_t>();
    s.flag_bits = (mode & 8) == 0 ? in.below(8) : in.take<std::uint64_t>();
    s.padded = !s.legacy && (s.flag_bits & 4) != 0;
    auto const type = (mode & 16) == 0 ? in.below(24) : in.take<std::uint32_t>();
    std::memcpy(&s.t.device.device_type, &type, sizeof type);  // may not be an enumerator
    s.t.device.device_id = in.take<std::int8_t>();
    s.t.dtype = {in.take<std::uint8_t>(), in.take<std::uint8_t>(), in.take<std::uint8_t>()};
    if ((mode & 32) == 0)
        s.t.dtype.code = s.t.dtype.code % 20, s.t.dtype.bits = static_cast<std::uint8_t>((s.t.dtype.bits % 17) * 4);
    s.t.ndim = in.take<std::int8_t>();
    if (s.t.ndim > 70) s.t.ndim %= 8;
    auto const lists = in.take<std::uint8_t>();
    auto const n = static_cast<std::size_t>(s.t.ndim > 0 ? s.t.ndim : 0);
    if ((lists & 1) == 0) s.shape = std::make_unique<std::int64_t[]>(n);
    if ((lists & 2) == 0) s.strides = std::make_unique<std::int64_t[]>(n);
    for (std::size_t i = 0; s.shape && i < n; ++i) s.shape[i] = number(in);
    bool const compact = (lists & 4) != 0 && s.shape;
    std::uint64_t step = 1;
    for (std::size_t i = n; s.strides && i-- > 0;) {
        s.strides[i] = compact ? static_cast<std::int64_t>(step) : number(in);
        if (compact) step *= static_cast<std::uint64_t>(s.shape[i]);
    }
    if (s.strides && n != 0 && (lists & 8) != 0) s.strides[in.below(static_cast<unsigned>(n))] = number(in);
    s.t.shape = s.shape.get();
    s.t.strides = s.strides.get();
    s.t.byte_offset = (lists & 16) == 0 ? 0 : static_cast<std::uint64_t>(number(in));
    s.t.data = (lists & 32) == 0 ? &deleted : reinterpret_cast<void*>(static_cast<std::uintptr_t>(number(in)));
    return s;
}

/// The rules for a tensor, computed in 128 bits and in another sequence.
struct truth {
    bool accepted = false;
    wide count = 1, bytes = 0, lowest = 0, highest = 0;  // lowest and highest: elements from the first one
};

bool dtype_is_known(DLDataType t) {
    if (t.bits == 0 || t.lanes == 0 || t.code > 18) return false;
    if (t.code <= 1) return t.bits < 8 || t.bits % 8 == 0;
    if (t.code == 2 || t.code == 3) return t.bits % 8 == 0;
    if (t.code == 4) return t.bits == 16;
    if (t.code == 5) return t.bits % 16 == 0;
    if (t.code == 15 || t.code == 16) return t.bits == 6;
    if (t.code == 17) return t.bits == 4;
    if (t.code == 18) return t.bits == 32;
    return t.bits == 8;
}

truth truth_of(tensor_spec const& s) {
    truth is;
    auto const& t = s.t;
    if (!s.legacy && s.major != 1) return is;
    auto const type = static_cast<std::int64_t>(t.device.device_type);
    if (type < 1 || type > 21 || type == 5 || type == 6 || !dtype_is_known(t.dtype)) return is;
    bool const has_one_device = type == 1 || type == 3 || type == 11 || type == 13;  // R35: no id
    if (t.device.device_id < 0 && !has_one_device) return is;
    if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) return is;
    bool empty = false, huge = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] < 0) return is;
        empty = empty || t.shape[i] == 0;
    }
    for (int i = 0; i < t.ndim && !empty; ++i) {
        is.count *= t.shape[i];
        huge = huge || is.count > most;
        if (huge) is.count = most;
    }
    if (empty) is.count = 0;
    wide bits = wide{t.dtype.bits} * t.dtype.lanes;
    if (s.padded) bits = (bits + 7) / 8 * 8;
    is.bytes = (is.count * bits + 7) / 8;
    if (huge || is.bytes > most) return is;
    wide step = 1;
    for (int i = t.ndim; !empty && i-- > 0;) {
        wide const reach = (wide{t.shape[i]} - 1) * (t.strides != nullptr ? wide{t.strides[i]} : step);
        (reach < 0 ? is.lowest : is.highest) += reach < 2 * least ? 2 * least : reach > 2 * most ? 2 * most : reach;
        step *= t.shape[i];
    }
    // Without strides the last byte counts, not the last element's bits: packed elements may share it.
    if (t.strides != nullptr && ((is.highest + 1) * bits > most || is.lowest * bits < least)) return is;
    if (t.data == nullptr && !empty) return is;
    bool const handle = type == 4 || type == 7 || type == 8 || type == 15;
    wide const first = wide{reinterpret_cast<std::uintptr_t>(t.data)} + t.byte_offset, end = wide{UINTPTR_MAX} + 1;
    if (!handle && first >= end) return is;
    if (!handle && !empty && (first * 8 + is.lowest * bits < 0 || first * 8 + (is.highest + 1) * bits > end * 8)) return is;
    is.accepted = true;
    return is;
}

void delete_versioned(DLManagedTensorVersioned* raw) {
    ++deleted;
    std::free(raw);
}
void delete_legacy(DLManagedTensor* raw) {
    ++deleted;
    std::free(raw);
}

DLManagedTensorVersioned* make_versioned(tensor_spec const& s) {
    // R2: another major version may have only version, context and deleter.
    auto const size = s.major == 1 ? sizeof(DLManagedTensorVersioned) : offsetof(DLManagedTensorVersioned, flags);
    auto* raw = static_cast<DLManagedTensorVersioned*>(std::malloc(size));
    raw->version = {s.major, s.minor};
    raw->manager_ctx = nullptr;
    raw->deleter = s.has_deleter ? &delete_versioned : nullptr;
    if (s.major == 1) {
        raw->flags = s.flag_bits;
        raw->dl_tensor = s.t;
    }
    return raw;
}

DLManagedTensor* make_legacy(tensor_spec const& s) {
    auto* raw = static_cast<DLManagedTensor*>(std::malloc(sizeof(DLManagedTensor)));
    *raw = {s.t, nullptr, s.has_deleter ? &delete_legacy : nullptr};
    return raw;
}

/// Reads every element through a typed view, if C++ has the type.
template <class T>
void read_all(ferry::managed_tensor const& tensor) {
    if (tensor.dtype() != ferry::dtype_of<T>) return;
    auto const view = tensor.as<T const>();
    std::vector<std::int64_t> index(static_cast<std::size_t>(tensor.rank()));
    for (auto left = tensor.view().size(); left > 0; --left) {
        auto const value = view[index];
        asm volatile("" ::"g"(&value) : "memory");
        for (int i = tensor.rank(); i-- > 0;) {
            if (++index[static_cast<std::size_t>(i)] < tensor.view().extent(i)) break;
            index[static_cast<std::size_t>(i)] = 0;
        }
    }
}

/// Whether a view has the properties that the oracle computed for its struct.
void compare(ferry::tensor_view const& v, tensor_spec const& s, truth const& is) {
    HOLDS(v.rank() == s.t.ndim);
    HOLDS(v.size() == is.count);
    HOLDS(v.nbytes() == is.bytes);
    HOLDS(v.is_empty() == (is.count == 0));
    bool compact = true;
    wide step = 1;
    for (int i = v.rank(); i-- > 0;) {
        HOLDS(v.extent(i) == s.t.shape[i] && v.extent(i) >= 0);
        if (s.t.strides != nullptr) HOLDS(v.stride(i) == s.t.strides[i]);
        else if (is.count != 0) HOLDS(v.stride(i) == step);
        if (s.t.strides != nullptr && s.t.shape[i] != 1 && s.t.strides[i] != step) compact = false;
        if (is.count != 0) step *= s.t.shape[i];
    }
    HOLDS(v.is_contiguous() == (compact || is.count == 0));
}

/// Whether a writable view is refused exactly when it must be.
template <class T, ferry::layout Layout>
void write_all(ferry::managed_tensor const& tensor, tensor_spec const& s) {
    auto const v = tensor.view();
    bool repeats = false;
    for (int i = 0; i < v.rank(); ++i) repeats = repeats || (!v.is_empty() && v.extent(i) > 1 && v.stride(i) == 0);
    auto const type = static_cast<int>(s.t.device.device_type);
    bool const is_host = type == 1 || type == 3 || type == 11 || type == 13;
    bool const is_aligned = v.is_empty() || reinterpret_cast<std::uintptr_t>(v.data()) % alignof(T) == 0;
    try {
        auto const view = tensor.as<T, 2, ferry::access_from::host, Layout>();
        HOLDS(v.dtype() == ferry::dtype_of<T> && v.rank() == 2 && !tensor.is_read_only() && !repeats && is_host &&
              is_aligned);
        HOLDS(Layout == ferry::layout::strided || v.is_contiguous());
        static_cast<void>(view.at(s.t.shape[0], 0));
        HOLDS(false);  // one past the end
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        switch (e.code()) {
            case ferry::errc::dtype: HOLDS(v.dtype() != ferry::dtype_of<T>); break;
            case ferry::errc::rank: HOLDS(v.rank() != 2); break;
            case ferry::errc::read_only: HOLDS(tensor.is_read_only()); break;
            case ferry::errc::strides:
                HOLDS(repeats || (Layout == ferry::layout::contiguous && !v.is_contiguous()));
                break;
            case ferry::errc::not_accessible: HOLDS(!is_host); break;
            case ferry::errc::alignment: HOLDS(!is_aligned); break;
            default: HOLDS(e.code() == ferry::errc::out_of_range);
        }
    }
}

struct nothing {
    std::unique_ptr<int> moved = std::make_unique<int>(0);
};

/// An accepted tensor that is exported again or lent has the same description.
void pass_on(ferry::managed_tensor const& tensor, tensor_spec const& s, truth const& is) {
    auto const again = ferry::make_managed(nothing{}, tensor.view());
    HOLDS(again.view().size() == is.count && again.view().nbytes() == is.bytes);
    HOLDS(again.get()->dl_tensor.strides != nullptr);
    for (int i = 0; i < s.t.ndim; ++i) {
        HOLDS(again.view().extent(i) == s.t.shape[i]);
        if (is.count != 0) HOLDS(again.view().stride(i) == tensor.view().stride(i));
    }
    HOLDS(again.view().data() == (is.count == 0 ? nullptr : tensor.view().data()));
    try {
        ferry::borrowed_tensor const loan{tensor.view()};
        HOLDS(s.t.ndim <= ferry::borrowed_tensor::max_rank);
        HOLDS(loan.view().size() == is.count && loan.view().is_read_only() == tensor.is_read_only());
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::rank && s.t.ndim > ferry::borrowed_tensor::max_rank);
    }
}

void accepted(ferry::managed_tensor tensor, tensor_spec const& s, truth const& is, bool readable, unsigned end) {
    HOLDS(is.accepted);
    HOLDS(deleted == 0);
    compare(tensor.view(), s, is);
    HOLDS(tensor.is_read_only() == (s.legacy || (s.flag_bits & 1) != 0));
    if (readable) {
        read_all<std::uint8_t>(tensor);
        read_all<float>(tensor);
        read_all<std::int64_t>(tensor);
        read_all<ferry::uint4_t>(tensor);
        read_all<ferry::float6_e2m3fn>(tensor);
    }
    write_all<float, ferry::layout::strided>(tensor, s);
    write_all<std::int16_t, ferry::layout::contiguous>(tensor, s);
    // Strides are computed in bits: explicit strides may overflow where implicit ones do not.
    wide const bits = wide{s.t.dtype.bits} * s.t.dtype.lanes;
    if (is.count * (s.padded ? (bits + 7) / 8 * 8 : bits) <= most) pass_on(tensor, s, is);
    switch (end) {  // one call of the deleter in each case
        case 0: break;
        case 1:
            tensor = {};
            try {
                static_cast<void>(tensor.as<float const>());
                HOLDS(false);
            } catch (ferry::error const& e) {
                fuzz::saw(e.code());
                HOLDS(e.code() == ferry::errc::consumed);
            }
            break;
        case 2: {
            auto moved = std::move(tensor);
            break;
        }
        case 3: {
            auto* const raw = tensor.release();
            if (raw->deleter != nullptr) raw->deleter(raw);
            break;
        }
        default:
            try {
                auto* const raw = tensor.release_legacy();
                HOLDS((s.flag_bits & 5) == 0 && !tensor);
                raw->deleter(raw);
            } catch (ferry::error const& e) {
                fuzz::saw(e.code());
                HOLDS(tensor && (s.legacy || (s.flag_bits & 5) != 0));
            }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in{data, size};
    if (size < 2) {  // a null struct
        try {
            if (size == 0) static_cast<void>(ferry::from_dlpack(static_cast<DLManagedTensor*>(nullptr)));
            else static_cast<void>(ferry::from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)));
            HOLDS(false);
        } catch (ferry::error const& e) {
            fuzz::saw(e.code());
            HOLDS(e.code() == ferry::errc::null_struct);
        }
        return 0;
    }
    auto s = read(in);
    auto const end = in.below(5);
    auto is = truth_of(s);

    // Memory of the exact size, if it can be allocated: then every element is read.
    std::unique_ptr<std::byte[]> memory;
    wide const unpadded = wide{s.t.dtype.bits} * s.t.dtype.lanes, bits = s.padded ? (unpadded + 7) / 8 * 8 : unpadded;
    bool const readable = is.accepted && s.t.device.device_type == kDLCPU && s.t.data == &deleted && is.count != 0 &&
                          is.count <= 512 && (is.highest - is.lowest + 1) * bits <= 1 << 18;
    if (readable) {
        // First bytes: elements before the first one may begin within a byte.
        auto const floor = [](wide n) { return n >= 0 ? n / 8 : -((-n + 7) / 8); };
        wide const first = floor(is.lowest * bits), last = floor((is.highest + 1) * bits + 7);
        memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(last - first));
        s.t.data = memory.get() - static_cast<std::int64_t>(first);
        s.t.byte_offset = 0;
    }

    deleted = 0;
    void* kept = nullptr;  // without a deleter the producer frees it
    try {
        if (s.legacy) {
            auto* const raw = make_legacy(s);
            if (!s.has_deleter) kept = raw;
            accepted(ferry::from_dlpack(raw), s, is, readable, end);
        } else {
            auto* const raw = make_versioned(s);
            if (!s.has_deleter) kept = raw;
            accepted(ferry::from_dlpack(raw), s, is, readable, end);
        }
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        if (is.accepted) std::fprintf(stderr, "%s\n", e.what());
        HOLDS(!is.accepted);
        HOLDS(e.code() != ferry::errc::ok && std::strlen(e.what()) > 20);
    }
    HOLDS(deleted == (s.has_deleter ? 1 : 0));
    std::free(kept);
    return 0;
}
