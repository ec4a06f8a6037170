// GNUstep's Foundation, made to read like Apple's.
#pragma once
#include_next <Foundation/Foundation.h>

// GNUstep's shorthands collide with C++ headers: _("...") is used by pybind11, RETAIN by others.
#undef _
#undef __
#undef RETAIN
#undef RELEASE
#undef AUTORELEASE

// What Apple's headers define and GNUstep's leave out.
#include <os/availability.h>
#ifndef NS_NOESCAPE
#define NS_NOESCAPE __attribute__((noescape))
#endif
#ifndef NS_SWIFT_NAME
#define NS_SWIFT_NAME(name)
#endif
#ifndef NS_DESIGNATED_INITIALIZER
#define NS_DESIGNATED_INITIALIZER __attribute__((objc_designated_initializer))
#endif
typedef NSString* NSErrorDomain;
