// Package observability holds what watches a cluster: dashboard.json for Grafana and alerts.yaml
// for Prometheus. Its tests compare them, and docs/TELEMETRY.md, with what a cluster really
// measures.
package observability
