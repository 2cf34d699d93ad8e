// ferry: the import protocols that the type of a Python object publishes.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/base/version.hpp>

#if defined(Py_GIL_DISABLED)
#include <atomic>
#endif
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::python::detail {

/// The import protocols that a type and its bases define.
struct published {
    bool dlpack = false;             ///< a class defines `__dlpack__`
    bool table = false;              ///< a class defines an exchange table, and no earlier base defines `__dlpack__`
    bool exports_gpu = false;        ///< an instance exported GPU memory that `__dlpack_device__` had not announced
    PyObject* torch_base = nullptr;  ///< base class of `torch.Tensor`, borrowed; null for other types
    bool is_torch_subclass = false;  ///< the type is derived from `torch.Tensor`
    bool overrides_torch = false;    ///< a subclass of `torch.Tensor` defines `__dlpack__` or an exchange table
#if defined(Py_GIL_DISABLED)
    unsigned tag = 0;  ///< version tag of the type before it was searched
#endif
};

/// Returns a function that returns whether a class is the base class of `torch.Tensor`, whose name had an underscore in
/// older releases.
[[nodiscard]] inline auto torch_base_test() {
#if defined(Py_LIMITED_API)
    static PyObject* cached = nullptr;  // never released, like the extension module of PyTorch
    if (cached == nullptr)
        if (reference const module{PyImport_GetModule(names().torch_module)})
            for (auto const* name : {"TensorBase", "_TensorBase"})
                if (cached == nullptr) cached = PyObject_GetAttrString(module.get(), name);
    PyErr_Clear();
    return [base = cached](PyTypeObject* type) { return reinterpret_cast<PyObject*>(type) == base; };
#else
    return [](PyTypeObject* type) {
#if defined(Py_GIL_DISABLED)
        if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) != 0) return false;  // its name may be changing
#endif
        return std::strcmp(type->tp_name, "torch._C.TensorBase") == 0 ||
               std::strcmp(type->tp_name, "torch._C._TensorBase") == 0;
    };
#endif
}

/// Returns the method resolution order of a type: a tuple, or null.
[[nodiscard]] inline reference bases_of(PyTypeObject* type) noexcept {
#if defined(Py_LIMITED_API) || defined(Py_GIL_DISABLED)
    return reference{PyObject_GenericGetAttr(reinterpret_cast<PyObject*>(type), names().mro)};
#else
    Py_XINCREF(type->tp_mro);
    return reference{type->tp_mro};
#endif
}

/// Returns the mapping of the attributes that a type defines, or null.
[[nodiscard]] inline reference attributes_of(PyTypeObject* type) noexcept {
#if defined(Py_LIMITED_API)
    return reference{PyObject_GenericGetAttr(reinterpret_cast<PyObject*>(type), names().dict)};
#elif PY_VERSION_HEX >= 0x030C0000
    return reference{PyType_GetDict(type)};
#else
    Py_XINCREF(type->tp_dict);
    return reference{type->tp_dict};
#endif
}

#if defined(Py_GIL_DISABLED)
/// Returns the version tag of a type, 0 if it has none. Another thread may change it.
[[nodiscard]] inline unsigned tag_of(PyTypeObject* type) noexcept {
    return __atomic_load_n(&type->tp_version_tag, __ATOMIC_ACQUIRE);
}
#endif

/// Searches the method resolution order of a type once. Comparing a key may run Python code that changes the bases; the
/// search continues with the previous bases.
[[nodiscard]] FERRY_NOINLINE inline published find_published(PyTypeObject* type) {
    auto const& known = names();
    auto const is_torch_base = torch_base_test();
    reference const bases = bases_of(type);
    Py_ssize_t const count = bases ? tuple_size(bases.get()) : 0;
    published found;
#if defined(Py_GIL_DISABLED)
    PyUnstable_Type_AssignVersionTag(type);
    found.tag = tag_of(type);  // before the search: a type that changes meanwhile has another tag
#endif
    Py_ssize_t found_at = count;
    for (Py_ssize_t i = 0; i < count && !(found.dlpack && found.torch_base != nullptr); ++i) {
        auto* const base = reinterpret_cast<PyTypeObject*>(tuple_item(bases.get(), i));
        if (is_torch_base(base)) {  // torch.Tensor itself is at i - 1
            found.torch_base = reinterpret_cast<PyObject*>(base);
            found.is_torch_subclass = i > 1;
            found.overrides_torch = found_at + 1 < i;
        }
        if (found.dlpack) continue;
        reference const own = attributes_of(base);
        if (!own) continue;
        auto const defines = [&](PyObject* name) {
            int const has_it = call_python([&] { return PySequence_Contains(own.get(), name); });
            if (has_it < 0) throw error_is_set{};
            return has_it == 1;
        };
        found.table = found.table || defines(known.exchange_api) || defines(known.exchange_api_1_2);
        found.dlpack = defines(known.dlpack);
        if (found_at == count && (found.dlpack || found.table)) found_at = i;
    }
    return found;
}

/// Returns an attribute of an object; null, without a Python error, after an AttributeError.
[[nodiscard]] FERRY_NOINLINE inline reference find_attribute(PyObject* object, PyObject* name) {
    reference found{call_python([&] { return PyObject_GetAttr(object, name); })};
    if (found) return found;
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw error_is_set{};
    PyErr_Clear();
    return found;
}

/// The same for a name that is not interned yet.
[[nodiscard]] inline reference find_attribute(PyObject* object, char const* name) {
    reference const text{PyUnicode_InternFromString(name)};
    if (!text) throw error_is_set{};
    return find_attribute(object, text.get());
}

#if defined(Py_GIL_DISABLED)

/// A cache of the recent types that publish only `__dlpack__`, and of those whose objects cannot be imported, such as
/// `int`. As there is no GIL, an entry is one word, the version tag of the type, which CPython never assigns to another
/// type, and does not contain the method, which another thread could free.
class producer_cache {
   public:
    [[nodiscard]] bool knows(PyTypeObject* type) const noexcept { return found(producers_, type) != 0; }
    [[nodiscard]] bool knows_other(PyTypeObject* type) const noexcept { return found(others_, type) != 0; }
    [[nodiscard]] static PyObject* method_of(PyTypeObject*) noexcept { return nullptr; }
    [[nodiscard]] published published_by(PyTypeObject* type) const noexcept {
        return {.dlpack = true, .exports_gpu = (found(producers_, type) & exports_gpu) != 0};
    }
    void set_exports_gpu(PyTypeObject* type) noexcept {
        auto entry = found(producers_, type);
        if (entry != 0) producers_[place_of(type)].compare_exchange_strong(entry, entry | exports_gpu);
    }
    void add(PyTypeObject* type, PyObject*, published const& searched) noexcept { set(producers_, type, searched.tag); }
    void add_other(PyTypeObject* type, published const& searched) noexcept {
        if (type->tp_dictoffset == 0 && type->tp_getattro == PyObject_GenericGetAttr &&
            Py_TYPE(reinterpret_cast<PyObject*>(type)) == &PyType_Type)
            set(others_, type, searched.tag);
    }
    [[nodiscard]] FERRY_HIDDEN static producer_cache& known() noexcept {
        static constinit producer_cache cache;
        return cache;
    }

   private:
    static constexpr std::uint64_t known_tag = 0xFFFF'FFFF, exports_gpu = std::uint64_t{1} << 32;
    using entries = std::atomic<std::uint64_t>[8];

    [[nodiscard]] static std::size_t place_of(PyTypeObject* type) noexcept {
        return reinterpret_cast<std::uintptr_t>(type) / 64 % 8;
    }
    /// Returns the entry of a type; 0 if the cache does not contain it.
    [[nodiscard]] static std::uint64_t found(entries const& all, PyTypeObject* type) noexcept {
        auto const entry = all[place_of(type)].load(std::memory_order_relaxed);
        return (entry & known_tag) == tag_of(type) ? entry : 0;
    }
    static void set(entries& all, PyTypeObject* type, unsigned tag) noexcept {
        if (tag != 0) all[place_of(type)].store(tag, std::memory_order_relaxed);
    }

    entries producers_{}, others_{};
};

#else

/// A cache of the recent types that publish only `__dlpack__`, and of those whose objects cannot be imported, such as
/// `int`. An import from such an object searches no dictionary. CPython assigns a new version tag to a type when it or
/// one of its bases changes, and never assigns a tag to two types. Requires the GIL.
class producer_cache {
   public:
    [[nodiscard]] bool knows(PyTypeObject* type) const noexcept { return entry_of(type).is_of(type); }
    /// Returns whether no object of a type has `__dlpack__` or an exchange table; false if the type is not in the
    /// cache.
    [[nodiscard]] bool knows_other(PyTypeObject* type) const noexcept { return others_[place_of(type)].is_of(type); }
    /// Returns the method `__dlpack__` of a type, borrowed; null if the type is not in the cache or an instance could
    /// have a different one.
    [[nodiscard]] PyObject* method_of(PyTypeObject* type) const noexcept {
        return knows(type) ? entry_of(type).method : nullptr;
    }
    /// Returns the protocols that a type publishes.
    [[nodiscard]] published published_by(PyTypeObject* type) const noexcept {
        return {.dlpack = true, .exports_gpu = entry_of(type).exports_gpu};
    }
    /// Records that an instance of a type exported GPU memory. Does nothing for types that are not in the cache.
    void set_exports_gpu(PyTypeObject* type) noexcept {
        if (knows(type)) entries_[place_of(type)].exports_gpu = true;
    }
    /// Adds a type.
    void add(PyTypeObject* type, PyObject* dlpack, published const&) noexcept {
        if (!has_tag(type)) return;
        // A type keeps only the methods in its dictionary alive: a descriptor may return a new function each time.
        bool const is_fixed = look_up(type, names().dlpack) == dlpack &&
                              PyType_HasFeature(Py_TYPE(dlpack), Py_TPFLAGS_METHOD_DESCRIPTOR) &&
                              has_fixed_attributes(type);
        entries_[place_of(type)] = {type, is_fixed ? dlpack : nullptr, tag_of(type)};
    }
    /// Adds a type that publishes nothing, unless its objects have attributes of their own.
    void add_other(PyTypeObject* type, published const&) noexcept {
        static_cast<void>(look_up(type, names().dlpack));  // assigns a tag
        if (has_tag(type) && has_fixed_attributes(type) && Py_TYPE(reinterpret_cast<PyObject*>(type)) == &PyType_Type)
            others_[place_of(type)] = {type, nullptr, tag_of(type)};
    }
    [[nodiscard]] FERRY_HIDDEN static producer_cache& known() noexcept {
        static constinit producer_cache cache;
        return cache;
    }

   private:
    struct entry {
        PyTypeObject* type = nullptr;
        PyObject* method = nullptr;  // valid while the type has this tag
        unsigned tag = 0;
        bool exports_gpu = false;
        [[nodiscard]] bool is_of(PyTypeObject* other) const noexcept {
            return type == other && tag == tag_of(other) && has_tag(other);
        }
    };
    [[nodiscard]] static std::size_t place_of(PyTypeObject* type) noexcept {
        return reinterpret_cast<std::uintptr_t>(type) / 64 % 8;
    }
    [[nodiscard]] entry const& entry_of(PyTypeObject* type) const noexcept { return entries_[place_of(type)]; }
#if defined(Py_LIMITED_API)
    // The limited API has no tags: only static types are in the cache, which never change and are never freed.
    [[nodiscard]] static unsigned tag_of(PyTypeObject*) noexcept { return 0; }
    [[nodiscard]] static bool has_tag(PyTypeObject* type) noexcept {
        return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) == 0;
    }
    [[nodiscard]] static PyObject* look_up(PyTypeObject* type, PyObject* name) noexcept {
        reference const own = attributes_of(type), found{own ? PyObject_GetItem(own.get(), name) : nullptr};
        PyErr_Clear();
        return found.get();  // the type keeps it
    }
    [[nodiscard]] static bool has_fixed_attributes(PyTypeObject* type) noexcept {
        reference const offset{PyObject_GenericGetAttr(reinterpret_cast<PyObject*>(type), names().dictoffset)};
        bool const has_dict = !offset || PyLong_AsLong(offset.get()) != 0;
        PyErr_Clear();
        return !has_dict && PyType_GetSlot(type, Py_tp_getattro) == reinterpret_cast<void*>(&PyObject_GenericGetAttr);
    }
#else
    [[nodiscard]] static unsigned tag_of(PyTypeObject* type) noexcept { return type->tp_version_tag; }
    [[nodiscard]] static bool has_tag(PyTypeObject* type) noexcept {
        return type->tp_version_tag != 0 && PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) != 0;
    }
    [[nodiscard]] static PyObject* look_up(PyTypeObject* type, PyObject* name) noexcept {
        return _PyType_Lookup(type, name);
    }
    /// Returns whether the objects of a type have no attributes other than those of the type.
    [[nodiscard]] static bool has_fixed_attributes(PyTypeObject* type) noexcept {
        return type->tp_dictoffset == 0 && type->tp_getattro == PyObject_GenericGetAttr;
    }
#endif
    entry entries_[8], others_[8];
};

#endif

/// Returns the protocols that a type publishes, from the cache if the type is in it.
[[nodiscard]] inline published published_by(PyTypeObject* type) {
    auto const& cache = producer_cache::known();
    if (cache.knows(type)) return cache.published_by(type);
    return cache.knows_other(type) ? published{} : find_published(type);
}

/// Returns the exchange table of the type of an object: reads the capsule under either name (R69), selects the newest
/// version that ferry supports (R70), and requires the functions that an import calls (R71).
[[nodiscard]] FERRY_NOINLINE inline abi::exchange_api const* find_exchange_api(PyObject* object,
                                                                               published const& type) {
    if (!type.table) return nullptr;
    // A capsule identifies its contents. The integer that DLPack 1.2 used instead could be an invalid address.
    auto* const type_object = reinterpret_cast<PyObject*>(Py_TYPE(object));
    reference capsule = find_attribute(type_object, names().exchange_api);
    if (!capsule) capsule = find_attribute(type_object, names().exchange_api_1_2);
    if (!capsule || PyCapsule_IsValid(capsule.get(), abi::exchange_api_capsule) == 0) return nullptr;
    void* const table = PyCapsule_GetPointer(capsule.get(), abi::exchange_api_capsule);
    auto const* header = static_cast<abi::exchange_api_header const*>(table);
    while (header != nullptr && header->version.major > version::current.major) {
        auto const* const next = header->prev_api;
        auto const& is = header->version;
        bool const is_older = next != nullptr && (next->version.major < is.major ||
                                                  (next->version.major == is.major && next->version.minor < is.minor));
        header = is_older ? next : nullptr;  // a list whose versions do not decrease may be cyclic
    }
    if (header == nullptr || header->version.major != version::current.major) return nullptr;
    auto const* api = reinterpret_cast<abi::exchange_api const*>(header);
    return api->managed_tensor_from_py_object_no_sync != nullptr && api->current_work_stream != nullptr ? api : nullptr;
}

/// Searches `__dlpack__` for has_dlpack, and adds the type to the cache.
[[nodiscard]] FERRY_NOINLINE inline bool search_dlpack(PyObject* x, published const& type) {
    auto* const type_object = Py_TYPE(x);
    auto& cache = producer_cache::known();
    // Searched last, because `add` requires the current attribute of the type.
    if (auto const found = find_attribute(reinterpret_cast<PyObject*>(type_object), names().dlpack)) {
        if (type.dlpack && !type.table && type.torch_base == nullptr) cache.add(type_object, found.get(), type);
        return true;
    }
    if (PyType_Check(x) == 0 && find_attribute(x, names().dlpack)) return true;
    if (!type.dlpack && !type.table) cache.add_other(type_object, type);
    return false;
}

/// Returns whether an object has `__dlpack__`: as a method of its type or, for a proxy, as an attribute of the object.
/// For a class, searches only the metaclass, because the class defines methods for its instances. Adds the type to the
/// cache if it publishes only `__dlpack__`, as a method, or nothing.
[[nodiscard]] inline bool has_dlpack(PyObject* x, published const& type) {
    auto* const type_object = Py_TYPE(x);
    auto const& cache = producer_cache::known();
    if (cache.knows(type_object)) return true;
    if (cache.knows_other(type_object)) return false;
    return search_dlpack(x, type);
}

}  // namespace FERRY_NAMESPACE::python::detail
