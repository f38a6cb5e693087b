package terraform_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The provider deletes the clusters that the configuration does not have: a replica stays in it,
// and after a failover the survivor does, alone, and takes the transactions.
func TestClustersBeforeAndAfterAFailover(t *testing.T) {
	t.Parallel()
	if !hasTerraform() {
		t.Log("no terraform on this machine: make terraform runs the module's own tests")
		return
	}
	variables := []string{"name=percolator", `first={zone="europe-west1-b",min_nodes=1,max_nodes=3}`, `replicas={c2={zone="europe-north1-a"}}`}
	for _, c := range []struct {
		what, serving string
		variables     []string
		clusters      []string
	}{
		{"one cluster", "percolator-c1", variables[:2], []string{"percolator-c1"}},
		{"a replica", "percolator-c1", variables, []string{"percolator-c1", "percolator-c2"}},
		{"after a failover", "percolator-c2", append(slices.Clone(variables), "failed_over_to=c2"), []string{"percolator-c2"}},
	} {
		clusters := evaluate[map[string]struct{ Zone string }](t, "modules/clusters", `{for end, c in local.clusters : "${var.name}-${end}" => c}`, c.variables...)
		if got := slices.Sorted(maps.Keys(clusters)); !slices.Equal(got, c.clusters) {
			t.Errorf("%s: clusters %q, want %q", c.what, got, c.clusters)
		}
		if got := evaluate[string](t, "modules/clusters", `"${var.name}-${local.serving}"`, c.variables...); got != c.serving {
			t.Errorf("%s: transactions go to %s, want %s", c.what, got, c.serving)
		}
	}
}

// The instance has the clusters of modules/clusters and no others, each profile routes to the one
// that serves, and docs/DISASTER.md names clusters as the module does.
func TestClustersAreThoseOfTheModule(t *testing.T) {
	t.Parallel()
	instance := read(t, "bigtable.tf")
	if n := len(regexp.MustCompile(`(?m)^ +(?:dynamic "cluster"|cluster) \{`).FindAllString(instance, -1)); n != 1 || !strings.Contains(instance, "for_each = local.clusters\n") {
		t.Errorf("bigtable.tf has %d blocks of clusters, or makes them of something else", n)
	}
	profiles := read(t, "app_profiles.tf")
	if strings.Count(profiles, "cluster_id ") != 1 || !strings.Contains(profiles, "cluster_id                 = local.cluster\n") {
		t.Error("app_profiles.tf routes to another cluster than the one that serves")
	}
	page := read(t, "../docs/DISASTER.md")
	named := regexp.MustCompile(`--(?:cluster|source-cluster|destination-cluster|route-to)=("[^"]*"|\S+)`).FindAllStringSubmatch(page, -1)
	if len(named) < 4 {
		t.Fatalf("found %d clusters", len(named))
	}
	for _, m := range named {
		if name := strings.Trim(m[1], `"\`); !regexp.MustCompile(`^(\$[A-Za-z]+|[a-z][a-z0-9-]*-c[0-9])$`).MatchString(name) {
			t.Errorf("docs/DISASTER.md names a cluster %q, which the module does not make: NAME-c1", name)
		}
	}
}
