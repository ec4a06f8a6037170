#pragma once
#import <Metal/MTLResource.h>

NS_ASSUME_NONNULL_BEGIN

API_AVAILABLE(macos(10.11), ios(8.0))
@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
- (void*)contents;  // NULL for MTLStorageModePrivate
- (void)didModifyRange:(NSRange)range API_AVAILABLE(macos(10.11), macCatalyst(13.0));
@property(readonly) uint64_t gpuAddress API_AVAILABLE(macos(13.0), ios(16.0));
@end

NS_ASSUME_NONNULL_END
