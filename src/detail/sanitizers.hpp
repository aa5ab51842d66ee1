#pragma once

/// LOCKSTEP_ADDRESS_SANITIZER, LOCKSTEP_THREAD_SANITIZER: 1 if g++ or clang compiles this with the sanitizer.
#if defined(__has_feature)
#define LOCKSTEP_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define LOCKSTEP_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_ADDRESS_SANITIZER 1
#else
#define LOCKSTEP_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define LOCKSTEP_THREAD_SANITIZER 1
#else
#define LOCKSTEP_THREAD_SANITIZER 0
#endif
#endif
