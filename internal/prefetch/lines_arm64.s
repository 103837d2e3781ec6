//go:build gc && !purego

#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

// func Neighbours(p unsafe.Pointer)
TEXT ·Neighbours(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R2
	MOVD 0(R2), R0 // next
	MOVD 8(R2), R1 // prev
	PRFM 8(R0), PSTL1KEEP
	PRFM (R1), PSTL1KEEP
	RET
