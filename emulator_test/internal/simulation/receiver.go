package simulation

import "github.com/gopercolator/percolator/emulator_test/internal/workload"

// receive decides what becomes of a delivery to the receiver of exports.
func (w *world) receive(worker string) workload.Reception {
	if w.calm.Load() {
		return workload.Received
	}
	switch w.tally.oneOf(w.dice.next("receiver", worker), min(0.05*w.cfg.intensity, 0.5), receiverRefused, receiverDoubtful) {
	case receiverRefused:
		return workload.Refused
	case receiverDoubtful:
		return workload.Doubtful
	}
	return workload.Received
}
