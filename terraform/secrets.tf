# Certificates for mutual TLS. Only the empty secrets are made here: their contents never pass
# through terraform's state. One authority signs both sides; the servers share a certificate, for
# var.oracle_server_name.

locals {
  secret_readers = var.oracle_security != "mtls" ? {} : {
    ca          = merge({ oracle = google_service_account.percolator["oracle"].member }, local.clients)
    server-cert = { oracle = google_service_account.percolator["oracle"].member }
    server-key  = { oracle = google_service_account.percolator["oracle"].member }
    client-cert = local.clients
    client-key  = local.clients
  }
  secret_grants = merge([
    for secret, readers in local.secret_readers : { for who, member in readers : "${secret} ${who}" => { secret = secret, member = member } }
  ]...)
}

resource "google_secret_manager_secret" "tls" {
  for_each = local.secret_readers

  project   = var.project
  secret_id = "${var.name}-tso-${each.key}"
  labels    = var.labels

  replication {
    user_managed {
      replicas {
        location = var.region

        dynamic "customer_managed_encryption" {
          for_each = var.kms_key == null ? [] : [var.kms_key]
          content {
            kms_key_name = customer_managed_encryption.value
          }
        }
      }
    }
  }

  depends_on = [terraform_data.key_granted]
}

resource "google_secret_manager_secret_iam_member" "tls" {
  for_each = local.secret_grants

  project   = var.project
  secret_id = google_secret_manager_secret.tls[each.value.secret].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = each.value.member
}
