package simulation

import "github.com/gopercolator/percolator/internal/workload"

// receive decides what becomes of a delivery to the receiver of exports.
func (w *world) receive(worker string) workload.Reception {
	if w.calm.Load() {
		return workload.Received
	}
	kind := oneOf(w.dice.next("receiver", worker), min(0.05*w.cfg.intensity, 0.5), receiverRefused, receiverDoubtful)
	switch kind {
	case receiverRefused:
		w.tally.add(kind)
		return workload.Refused
	case receiverDoubtful:
		w.tally.add(kind)
		return workload.Doubtful
	}
	return workload.Received
}
