# With a key of one's own, the services' agents have to be able to use it before the instances are
# created.

data "google_project" "this" {
  count      = var.kms_key == null || var.service_agents != null ? 0 : 1
  project_id = var.project
}

locals {
  agents = {
    gcp-sa-bigtable = "bigtableadmin.googleapis.com"
    gcp-sa-spanner  = "spanner.googleapis.com"
  }
  encrypting_services = var.kms_key == null ? [] : concat(["gcp-sa-bigtable"], var.oracle_store == "spanner" ? ["gcp-sa-spanner"] : [])
}

resource "google_kms_crypto_key_iam_member" "encryption" {
  for_each = toset(local.encrypting_services)

  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member = (
    var.service_agents != null ? var.service_agents[local.agents[each.key]] :
    "serviceAccount:service-${data.google_project.this[0].number}@${each.key}.iam.gserviceaccount.com"
  )
}

# A grant takes a minute or two to be known everywhere, and an instance that is created before that
# is refused. Nothing says when it is known, so this waits. terraform_data is built into Terraform:
# no further provider is needed for it.
resource "terraform_data" "key_granted" {
  count = var.kms_key == null ? 0 : 1

  triggers_replace = { for name, grant in google_kms_crypto_key_iam_member.encryption : name => grant.id }

  provisioner "local-exec" {
    command = "sleep ${var.iam_wait}"
  }
}
