// ferry: conversion of exceptions to error codes, for functions that C code calls.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <exception>
#include <new>
#include <type_traits>

#if FERRY_HAS_EXCEPTIONS
namespace FERRY_NAMESPACE {

/// Calls a function and converts any exception to an error code and a message. Use it in functions that C code calls,
/// because exceptions must not propagate through C code. Does not allocate.
///
/// \param code  errc::ok on success; the code of a ferry::error; errc::out_of_memory for std::bad_alloc;
///              errc::foreign_exception for other exceptions
/// \param text  empty on success; `what()` of a std::exception; a fixed message for other exceptions
/// \param f     function without parameters that returns nothing
/// \return      true when `f` did not throw
template <std::invocable F>
bool catch_into(errc& code, inplace_text& text, F&& f) noexcept {
    static_assert(std::is_void_v<std::invoke_result_t<F>>,
                  "ferry: the function passed to ferry::catch_into must return void: write its result through a "
                  "reference");
    code = errc::ok;
    text = {};
    try {
        static_cast<F&&>(f)();
        return true;
    } catch (error const& e) {
        code = e.code();
        text = e.what();
    } catch (std::bad_alloc const& e) {
        code = errc::out_of_memory;
        text = e.what();
    } catch (std::exception const& e) {
        code = errc::foreign_exception;
        text = e.what();
    } catch (...) {
        code = errc::foreign_exception;
        text = "an exception that is not a std::exception";
    }
    return false;
}

}  // namespace FERRY_NAMESPACE
#endif
