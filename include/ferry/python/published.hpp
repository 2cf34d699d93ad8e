// ferry: which protocols the type of a Python object publishes.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/base/version.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::python::detail {

/// Where among the bases of a type, itself first, a name is defined; their number when nowhere. To compare a key may
/// run Python code that gives the type other bases: those that it had are looked at.
/// \throws error_is_set  what the comparison of a key raised
[[nodiscard]] inline Py_ssize_t base_that_defines(PyTypeObject* type, PyObject* name) {
    Py_XINCREF(type->tp_mro);
    reference const bases{type->tp_mro};
    Py_ssize_t const count = bases ? PyTuple_GET_SIZE(bases.get()) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases.get(), i));
#if PY_VERSION_HEX >= 0x030C0000
        reference const own{PyType_GetDict(base)};
        PyObject* const dictionary = own.get();
#else
        PyObject* const dictionary = base->tp_dict;
#endif
        if (dictionary == nullptr) continue;
        int const has_it = call_python([&] { return PyDict_Contains(dictionary, name); });
        if (has_it < 0) throw error_is_set{};
        if (has_it == 1) return i;
    }
    return count;
}

/// An attribute of an object; nothing when it has none. Other errors go through.
[[nodiscard]] inline reference find_attribute(PyObject* object, PyObject* name) {
    reference found{call_python([&] { return PyObject_GetAttr(object, name); })};
    if (found) return found;
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw error_is_set{};
    PyErr_Clear();
    return found;
}

/// The types that were last found without a table and with a `__dlpack__`, so that the common
/// import asks no dictionary. CPython gives a type another tag whenever it or one of its bases
/// changes, and no tag to two types. Used with the GIL held.
class producer_cache {
   public:
    [[nodiscard]] bool knows(PyTypeObject* type) const noexcept { return entry_of(type).is_of(type); }
    /// The method of the type, borrowed, when no instance can have another; null else.
    [[nodiscard]] PyObject* method_of(PyTypeObject* type) const noexcept {
        return knows(type) ? entry_of(type).method : nullptr;
    }
    /// `dlpack` is what the type has under the name.
    void add(PyTypeObject* type, PyObject* dlpack) noexcept {
        if (!has_tag(type)) return;
        // Only what is in a dictionary of the type lives that long: a descriptor may return a new function each time.
        bool const is_fixed = _PyType_Lookup(type, names().dlpack) == dlpack &&
                              PyType_HasFeature(Py_TYPE(dlpack), Py_TPFLAGS_METHOD_DESCRIPTOR) &&
                              type->tp_dictoffset == 0 && type->tp_getattro == PyObject_GenericGetAttr;
        entries_[place_of(type)] = {type, is_fixed ? dlpack : nullptr, type->tp_version_tag};
    }
    [[nodiscard]] FERRY_HIDDEN static producer_cache& known() noexcept {
        static constinit producer_cache cache;
        return cache;
    }

   private:
    struct entry {
        PyTypeObject* type = nullptr;
        PyObject* method = nullptr;  // lives as long as the type has this tag
        unsigned tag = 0;
        [[nodiscard]] bool is_of(PyTypeObject* other) const noexcept {
            return type == other && tag == other->tp_version_tag && has_tag(other);
        }
    };
    [[nodiscard]] static std::size_t place_of(PyTypeObject* type) noexcept {
        return reinterpret_cast<std::uintptr_t>(type) / 64 % 8;
    }
    [[nodiscard]] entry const& entry_of(PyTypeObject* type) const noexcept { return entries_[place_of(type)]; }
    [[nodiscard]] static bool has_tag(PyTypeObject* type) noexcept {
        return type->tp_version_tag != 0 && PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) != 0;
    }
    entry entries_[8];
};

/// The exchange table of an object's type, a capsule in either spelling (R69), in the newest version that we
/// can read (R70), with all that an import needs (R71); null when there is none. A table that a
/// base published does not speak for a type with a
/// `__dlpack__` of its own.
[[nodiscard]] inline abi::exchange_api const* find_exchange_api(PyObject* object) {
    auto* const type = Py_TYPE(object);
    if (producer_cache::known().knows(type)) return nullptr;
    // Most types have no table, and an attribute error costs more than the import: their
    // dictionaries are asked first.
    auto const newer = base_that_defines(type, names().exchange_api),
               older = base_that_defines(type, names().exchange_api_1_2);
    if (PyTuple_GET_SIZE(type->tp_mro) == newer && newer == older) return nullptr;
    if (base_that_defines(type, names().dlpack) < (newer < older ? newer : older)) return nullptr;
    // A capsule says what it holds. The int of DLPack 1.2 could be any number, and would be used as an address.
    reference published = find_attribute(reinterpret_cast<PyObject*>(type), names().exchange_api);
    if (!published) published = find_attribute(reinterpret_cast<PyObject*>(type), names().exchange_api_1_2);
    if (!published || PyCapsule_IsValid(published.get(), abi::exchange_api_capsule) == 0) return nullptr;
    void* const table = PyCapsule_GetPointer(published.get(), abi::exchange_api_capsule);
    auto const* header = static_cast<abi::exchange_api_header const*>(table);
    while (header != nullptr && header->version.major > version::current.major) {
        auto const* const next = header->prev_api;
        auto const& is = header->version;
        bool const is_older = next != nullptr && (next->version.major < is.major ||
                                                  (next->version.major == is.major && next->version.minor < is.minor));
        header = is_older ? next : nullptr;  // versions that do not descend may form a ring
    }
    if (header == nullptr || header->version.major != version::current.major) return nullptr;
    auto const* api = reinterpret_cast<abi::exchange_api const*>(header);
    return api->managed_tensor_from_py_object_no_sync != nullptr && api->current_work_stream != nullptr ? api : nullptr;
}

/// Whether an object has `__dlpack__`: of its type, else of its own, as what forwards its
/// attributes to another object has. A class has none in the sense of this question: its methods
/// are for its instances.
[[nodiscard]] inline bool has_dlpack(PyObject* x) {
    auto* const type = Py_TYPE(x);
    if (producer_cache::known().knows(type)) return true;
    auto const at = base_that_defines(type, names().dlpack);
    bool const is_plain = at < base_that_defines(type, names().exchange_api) &&
                          at < base_that_defines(type, names().exchange_api_1_2) &&
                          // The others are asked more: torch_tensor.hpp.
                          base_that_defines(type, names().requires_grad) == PyTuple_GET_SIZE(type->tp_mro);
    // Last: what was found must be what the type has when it is remembered.
    if (auto const found = find_attribute(reinterpret_cast<PyObject*>(type), names().dlpack)) {
        if (is_plain) producer_cache::known().add(type, found.get());
        return true;
    }
    return PyType_Check(x) == 0 && find_attribute(x, names().dlpack);
}

}  // namespace ferry::inline v0::python::detail
