//! gRPC's reflection, which tools such as grpcurl use to find the methods. tonic runs it; `routes.rs` passes its calls
//! on.

use tonic_reflection::server::Builder;

use super::tonic_service::TonicService;

/// The rate limit service and all types of its messages, as Envoy publishes them.
const DESCRIPTORS: &[u8] = include_bytes!("rls.bin");

/// The service, in its current and its first version.
pub(super) fn servers() -> Vec<TonicService> {
    match (known().build_v1(), known().build_v1alpha()) {
        (Ok(v1), Ok(v1_alpha)) => vec![TonicService::new(v1), TonicService::new(v1_alpha)],
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "no reflection");
            Vec::new()
        }
    }
}

fn known() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_called_is_described_completely() {
        assert_eq!(servers().len(), 2);
    }
}
