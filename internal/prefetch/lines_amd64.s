//go:build gc && !purego

#include "textflag.h"

// Go's assembler has no mnemonic for PREFETCHW. Processors without it execute it as a NOP.
#define PREFETCHW_AX BYTE $0x0F; BYTE $0x0D; BYTE $0x08
#define PREFETCHW_8AX BYTE $0x0F; BYTE $0x0D; BYTE $0x48; BYTE $0x08 // 8(AX)
#define PREFETCHW_CX BYTE $0x0F; BYTE $0x0D; BYTE $0x09

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHW_AX
	RET

// func Neighbours(p unsafe.Pointer)
TEXT ·Neighbours(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), DX
	MOVQ 0(DX), AX // next
	MOVQ 8(DX), CX // prev
	PREFETCHW_8AX
	PREFETCHW_CX
	RET
