#include "textflag.h"

// The assembler has no name for PREFETCHW. Where a processor does not know it, it is a NOP.
#define PREFETCHW_AX BYTE $0x0F; BYTE $0x0D; BYTE $0x08
#define PREFETCHW_CX BYTE $0x0F; BYTE $0x0D; BYTE $0x09

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHW_AX
	RET

// func Links(p unsafe.Pointer)
TEXT ·Links(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), DX
	MOVQ 0(DX), AX
	MOVQ 8(DX), CX
	PREFETCHW_AX
	PREFETCHW_CX
	RET
