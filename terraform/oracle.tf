# The oracle's servers: one in each zone, with an address that stays. Clients have all addresses and
# follow the leader by the one that it advertises, so there is no load balancer, which would send
# half of the requests to a server that stands by.

locals {
  oracle_port = 7070
  admin_port  = 7071
  oracle_tag  = "${var.name}-tso"
  servers     = toset(var.oracle_image == null ? [] : var.oracle_zones)

  record = var.oracle_store == "spanner" ? ["--spanner=${local.spanner_database}"] : [
    "--project=${var.project}", "--instance=${google_bigtable_instance.percolator.name}",
    "--app-profile=${google_bigtable_app_profile.percolator["percolator"].app_profile_id}",
  ]
  security = var.oracle_security == "alts" ? ["--alts"] : [
    "--tls-cert=/tls/server-cert", "--tls-key=/tls/server-key", "--tls-client-ca=/tls/ca",
  ]
}

# Reserved whether or not there are servers yet: clients and certificates may name them.
resource "google_compute_address" "oracle" {
  for_each = toset(var.oracle_zones)

  project      = var.project
  region       = var.region
  name         = "${var.name}-tso-${each.key}"
  address_type = "INTERNAL"
  subnetwork   = var.subnetwork
  labels       = var.labels
}

# /healthz says that the process lives and its election makes progress. Not /readyz: between two
# leaders nobody is ready, and a store that is down would have all servers replaced again and again.
resource "google_compute_health_check" "oracle" {
  project             = var.project
  name                = "${var.name}-tso"
  check_interval_sec  = 10
  timeout_sec         = 5
  healthy_threshold   = 2
  unhealthy_threshold = 3

  http_health_check {
    port         = local.admin_port
    request_path = "/healthz"
  }
}

resource "google_compute_instance_template" "oracle" {
  for_each = local.servers

  project      = var.project
  region       = var.region
  name_prefix  = "${var.name}-tso-"
  machine_type = var.oracle_machine_type
  tags         = [local.oracle_tag]
  labels       = var.labels

  disk {
    source_image = var.oracle_boot_image
    boot         = true
    auto_delete  = true
    disk_size_gb = 10

    dynamic "disk_encryption_key" {
      for_each = var.kms_key == null ? [] : [var.kms_key]
      content {
        kms_key_self_link = disk_encryption_key.value
      }
    }
  }

  network_interface {
    network    = var.network
    subnetwork = var.subnetwork
    # No access_config: no public address.
  }

  service_account {
    email  = google_service_account.percolator["oracle"].email
    scopes = ["cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  # For maintenance of its host a server is moved, not ended; should that take longer than its
  # lease, another one leads.
  scheduling {
    on_host_maintenance = "MIGRATE"
    automatic_restart   = true
  }

  metadata = {
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
    google-logging-enabled = "true"
    user-data = templatefile("${path.module}/oracle/cloud-init.yaml.tftpl", {
      image           = var.oracle_image
      collector_image = var.metrics_collector_image
      collector       = file("${path.module}/oracle/collector.yaml")
      secrets         = { for s in ["ca", "server-cert", "server-key"] : s => google_secret_manager_secret.tls[s].secret_id if var.oracle_security == "mtls" }
      fetch           = file("${path.module}/oracle/fetch-secret.sh")
      project         = var.project
      oracle_port     = local.oracle_port
      admin_port      = local.admin_port
      arguments = concat(local.record, local.security, [
        "--data=projects/${var.project}/instances/${google_bigtable_instance.percolator.name}",
        "--listen=0.0.0.0:${local.oracle_port}",
        "--advertise=${google_compute_address.oracle[each.key].address}:${local.oracle_port}",
        "--admin=0.0.0.0:${local.admin_port}", "--admin-public",
      ])
    })
  }

  lifecycle {
    create_before_destroy = true
  }

  depends_on = [terraform_data.key_granted]
}

# A group of one in each zone, which replaces its server when the health check fails. An apply
# changes no server that runs: replace one after the other by the commands in the output
# oracle_rollout, so that there is always one to lead.
resource "google_compute_instance_group_manager" "oracle" {
  for_each = local.servers

  project            = var.project
  zone               = each.key
  name               = "${var.name}-tso-${each.key}"
  base_instance_name = "${var.name}-tso"

  version {
    instance_template = google_compute_instance_template.oracle[each.key].self_link_unique
  }

  auto_healing_policies {
    health_check      = google_compute_health_check.oracle.id
    initial_delay_sec = 300
  }

  update_policy {
    type                  = "OPPORTUNISTIC"
    minimal_action        = "REPLACE"
    replacement_method    = "RECREATE"
    max_surge_fixed       = 0
    max_unavailable_fixed = 1
  }

  # A machine that is repaired gets the newest template, the one that was to be rolled out.
  instance_lifecycle_policy {
    force_update_on_repair = "YES"
  }

  lifecycle {
    # The one instance is made by its configuration below.
    ignore_changes = [target_size]
  }

  # A server needs its rights from the start, and until the end of a destroy. One that starts before
  # a grant is known tries again every five seconds.
  depends_on = [
    google_artifact_registry_repository_iam_member.oracle, google_bigtable_instance_iam_member.percolator,
    google_bigtable_table_iam_member.percolator, google_secret_manager_secret_iam_member.tls,
    google_spanner_database_iam_member.oracle,
  ]
}

resource "google_compute_per_instance_config" "oracle" {
  for_each = local.servers

  project                          = var.project
  zone                             = each.key
  instance_group_manager           = google_compute_instance_group_manager.oracle[each.key].name
  name                             = "${var.name}-tso-${each.key}"
  remove_instance_on_destroy       = true
  remove_instance_state_on_destroy = true

  preserved_state {
    internal_ip {
      interface_name = "nic0"
      auto_delete    = "NEVER"
      ip_address {
        address = google_compute_address.oracle[each.key].self_link
      }
    }
  }
}

resource "google_artifact_registry_repository_iam_member" "oracle" {
  count = var.oracle_image_repository == null ? 0 : 1

  project    = var.oracle_image_repository.project
  location   = var.oracle_image_repository.location
  repository = var.oracle_image_repository.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.percolator["oracle"].member
}
