import pytest
import torch

from tests.problem2.certificate.common import local_classifier, train_briefly


@pytest.fixture(scope="session")
def trained_weights():
    torch.manual_seed(0)
    return train_briefly(local_classifier(), 300).state_dict()


@pytest.fixture
def trained(trained_weights):
    model = local_classifier()
    model.load_state_dict(trained_weights)
    return model
