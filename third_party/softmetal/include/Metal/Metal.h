// The compute part of Apple's Metal framework: same files, types, selectors, values, availability.
// Nothing is declared here that Apple's headers do not have; what is particular to the software
// device is in <softmetal/softmetal.h>, which code that ships to a Mac does not include.
#pragma once
#import <Foundation/Foundation.h>
#import <Metal/MTLArgument.h>
#import <Metal/MTLBuffer.h>
#import <Metal/MTLCommandBuffer.h>
#import <Metal/MTLCommandEncoder.h>
#import <Metal/MTLCommandQueue.h>
#import <Metal/MTLComputeCommandEncoder.h>
#import <Metal/MTLComputePipeline.h>
#import <Metal/MTLDevice.h>
#import <Metal/MTLFunctionConstantValues.h>
#import <Metal/MTLLibrary.h>
#import <Metal/MTLResource.h>
#import <Metal/MTLTypes.h>
