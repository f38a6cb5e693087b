package emulator

import "time"

// Slow makes every request that needs the tablet which has key take so much longer there, reads one
// after another; 0 ends that. A part that is split off stays as slow.
func (d *Disks) Slow(table, key string, by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table(table).find(key).slow = by
}

// Unload takes the tablet that has key from its node until load is called: requests that need it
// get the code Unavailable. A part that is split off meanwhile is loaded already.
func (d *Disks) Unload(table, key string) (load func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.table(table).find(key)
	t.unloaded = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		t.unloaded = false
	}
}

// latency is what a request pays for a tablet that it needs.
func (d *Disks) latency(t *tablet) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Latency + t.slow
}
