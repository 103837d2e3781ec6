package commitlog

// epochStart is the offset at which the log of a leader epoch begins.
type epochStart struct {
	epoch  int32
	offset int64
}

// NoteEpoch records that what comes next is written under epoch. A new leader
// does it before its first record: the end of the epoch before it is then
// known to all.
func (l *Log) NoteEpoch(epoch int32) {
	if epoch > l.LastEpoch() {
		l.epochs = append(l.epochs, epochStart{epoch, l.end})
	}
}

// LastEpoch is the newest epoch in the log, -1 for none.
func (l *Log) LastEpoch() int32 {
	if len(l.epochs) == 0 {
		return -1
	}
	return l.epochs[len(l.epochs)-1].epoch
}

// EpochEnd answers a follower or consumer that asks how far this log agrees
// with one whose last record is of epoch: the largest epoch not above it, and
// the offset at which that ended here. -1, -1: this log has not come so far.
func (l *Log) EpochEnd(epoch int32) (int32, int64) {
	if epoch > l.LastEpoch() {
		return -1, -1
	}
	if epoch == l.LastEpoch() {
		return epoch, l.end
	}
	floor, end := epoch, l.epochs[0].offset
	for i, e := range l.epochs[:len(l.epochs)-1] {
		if e.epoch <= epoch {
			floor, end = e.epoch, l.epochs[i+1].offset
		}
	}
	return floor, end
}

func (l *Log) truncateEpochs() {
	for n := len(l.epochs); n > 0 && l.epochs[n-1].offset >= l.end; n-- {
		l.epochs = l.epochs[:n-1]
	}
}
