package simulated

import (
	"maps"
	"slices"
)

// Tables are the names of all tables.
func (c *Cluster) Tables() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.tables))
}

// Copy copies to another cluster the rows of a table whose keys pick lets through, as they are at
// present, and adds the table there if it is missing. A backup of a table becomes such a copy.
func (c *Cluster) Copy(name string, to *Cluster, pick func(key string) bool) error {
	from, err := c.table(name)
	if err != nil {
		return err
	}
	var rows []*row
	from.mu.Lock()
	families := slices.Clone(from.families)
	from.rows.Ascend(func(r *row) bool {
		if pick(r.key) {
			rows = append(rows, &row{key: r.key, items: slices.Clone(r.items), size: r.size}) // nothing changes a value
		}
		return true
	})
	from.mu.Unlock()
	if err := to.CreateTable(name, families); err != nil {
		return err
	}
	into, err := to.table(name)
	if err != nil {
		return err
	}
	into.mu.Lock()
	defer into.mu.Unlock()
	for _, r := range rows {
		into.add(r)
	}
	return nil
}
