#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

// func Links(p unsafe.Pointer)
TEXT ·Links(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R2
	MOVD 0(R2), R0
	MOVD 8(R2), R1
	PRFM (R0), PSTL1KEEP
	PRFM (R1), PSTL1KEEP
	RET
